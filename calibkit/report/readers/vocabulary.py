"""The names under which other tools save logits, labels and so on."""

NAMES = {
    key: tuple(names.split())
    for key, names in {
        "probs": "probs prob proba probas y_prob y_proba y_probs y_pred_proba p probability "
        "probabilities pred_proba predict_proba pred_probs pred_prob",
        "logits": "logits logit scores score y_score y_scores outputs decision_function",
        "labels": "labels label y_true target targets true_label true y y_test actual "
        "ground_truth gold label_ids obs truth targs true_labels true_class given_label",
        "confidence": "confidence conf confidences max_prob msp",
        "correct": "correct is_correct right hit acc",
        "groups": "groups group slice slices",
        "weights": "weights weight sample_weight sample_weights",
        "class_names": "class_names classes classes_",
        # The model's answers. Beside the label, they tell whether an answer is right.
        "answer": "y_pred pred prediction predicted predicted_class predicted_label answer preds "
        ".pred_class pred_class predict response pred_label predictions",
        # Only in tables: the logarithm of the confidence, and test or validation.
        "logprob": "logprob log_prob mean_logprob",
        "split": "split",
    }.items()
}
PREFIXES = {"logit_": "logits", "prob_": "probs", "proba_": "probs", "p_": "probs"}
PREFIXES |= {"probability_": "probs", "score_": "logits", "logprob_": "logits", "logp_": "logits"}
WEAK = ("score", "scores", "y_score", "y_scores", "outputs")  # logits or probs: the values decide
MODELS = ("model", "model_name", "model_id", "classifier")
ROLES = {name: name for name in NAMES} | {"label": "labels", "weight": "weights"}
ROLES |= {"prob": "probs", "logit": "logits", "group": "groups", "ignore": "ignore"}
VALIDATION = ("val", "valid", "validation")
# Arrays, by our names, that do not have one value for each sample.
WHOLE = ("class_names", "group_names", "cluster_name", "id_names", "doubts")
